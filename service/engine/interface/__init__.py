"""The interface of an engine to the service, its settings, and its messages to the core.

Also the description of a loaded model, and the time after which to retry.
"""
