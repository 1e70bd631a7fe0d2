"""Text generation of MindIE and Triton, and KServe's metadata of the server and its models."""
