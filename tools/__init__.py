"""Programs that build, check and release the project; `make` lists what they are for."""
