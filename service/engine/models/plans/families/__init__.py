"""The families of models that have a layer plan, one a file; `table` lists them.

Families with the same parts have a package: experts, Gemma's, latents, layer norms, recurrent layers, and encoders.
"""
