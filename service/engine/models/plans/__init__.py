"""Layer plans: what a decoder computes, as data; a family of models is a file of `families/`."""
