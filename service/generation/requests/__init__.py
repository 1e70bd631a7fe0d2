"""Requests for answers, vectors and scores, with their parameters."""
