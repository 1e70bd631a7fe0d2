"""The API's description, made of the types that parse requests and the limits of the contract."""
