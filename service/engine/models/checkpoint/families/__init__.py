"""The defaults of config.json by type, so that files of types with layer plans are read without transformers."""
