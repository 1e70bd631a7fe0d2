"""The files of encoders and cross-encoders, by sentence-transformers' conventions."""
