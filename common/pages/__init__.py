"""What every web page of the console is made of; the equivalent of `common.api` for people.

`answers`   full page or named part, done and refused answers to a form
`access`    signed-in people only, for whole pages and for htmx
`listing`   filter, sort and page a queryset from a URL that can be shared
`search`    the global search box
`shell`     navigation and the rest of the frame around a page
`formats`   numbers and times as people read them, units always
`badges`    word, tone and icon of every state
`charts`    what a chart shows, and the same in words
`steps`     a release plan as a strip of steps
"""
