"""Programs that build, check and release the project; `make help` lists the targets that run them."""
