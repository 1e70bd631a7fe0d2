"""Stored responses: the port of their store, SQLite behind it, and the thread on which its calls run."""
