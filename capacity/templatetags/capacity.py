from django import template

from capacity.changes import cards_in_words, change_in_words, place_in_words, room_in_words, size_in_words
from capacity.needs import measured_by
from capacity.reasons import in_words, law_in_words
from common.pages import formats

register = template.Library()
register.filter("mib", lambda size: formats.memory_size(size * 2**20))
register.filter("in_words", in_words)
register.filter("law_in_words", law_in_words)
register.filter("change_in_words", change_in_words)
register.filter("place_in_words", place_in_words)
register.filter("cards_in_words", cards_in_words)
register.filter("size_in_words", size_in_words)
register.filter("room_in_words", room_in_words)
register.filter("measured_by", measured_by)
