"""Release plans as frozen data: the document, its kinds of steps, the built-in ones, in words."""
