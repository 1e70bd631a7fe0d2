"""The families of models with recurrent layers."""
