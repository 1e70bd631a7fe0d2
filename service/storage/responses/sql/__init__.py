"""The store of responses in SQL: its statements, for any database behind one port."""
