"""The servicers: one module per service of the contract, which connects it to the layers below."""
