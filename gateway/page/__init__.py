"""The page to chat on, at `/`: plain modules for browsers, which call the API as every client does."""
