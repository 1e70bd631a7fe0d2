"""What is made from the contract: protoc plugins, the clients' packages, and the release that later ones keep."""
