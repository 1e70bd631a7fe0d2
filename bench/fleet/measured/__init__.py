"""What a simulation is made from and held against: step times of this machine, and a real fleet that takes them."""
