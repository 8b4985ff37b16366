from django import template

from capacity.reasons import in_words

register = template.Library()
register.filter("in_words", in_words)
