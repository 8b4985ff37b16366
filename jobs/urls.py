from jobs.pages import PAGES

urlpatterns = PAGES.urlpatterns
