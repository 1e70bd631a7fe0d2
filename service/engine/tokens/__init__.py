"""The conversion of text to token ids and back, and the green lists of watermarks."""
