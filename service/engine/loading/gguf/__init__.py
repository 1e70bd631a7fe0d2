"""Settings and tokenizers of GGUF files, as the files of a model's folder."""
