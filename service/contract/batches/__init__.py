"""Files and batches: records to messages, and lines with their results."""
