"""The benchmark of servers: the same load on sluice, llama.cpp and transformers, in turns."""
