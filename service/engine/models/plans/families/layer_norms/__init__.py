"""The families whose norms subtract the mean (layer norms), most of which compute a layer's two parts in parallel."""
