"""Files that other processes read or write meanwhile: their versions, their replacement, and errors in them."""
