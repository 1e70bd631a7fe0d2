"""The Azure AI model inference API."""
