"""Commands that the `sluice` program starts.

Check a model, convert a GGUF file, detect a watermark, show the settings.
"""
