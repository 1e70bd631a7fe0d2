"""The server process: the application, its listeners, and its life from the start to the end of the drain."""
