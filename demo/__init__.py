"""The bundled model: its training corpus, network, training and evaluation, and the trained weights."""
