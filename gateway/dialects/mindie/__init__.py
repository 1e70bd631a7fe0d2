"""The text generation of MindIE and Triton, and KServe's about the server and its models."""
