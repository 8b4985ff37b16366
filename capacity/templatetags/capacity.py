from django import template

from capacity.changes import cards_in_words, change_in_words, place_in_words, size_in_words
from capacity.reasons import in_words

register = template.Library()
register.filter("in_words", in_words)
register.filter("change_in_words", change_in_words)
register.filter("place_in_words", place_in_words)
register.filter("cards_in_words", cards_in_words)
register.filter("size_in_words", size_in_words)
