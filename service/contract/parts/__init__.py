"""The parts that messages of several services share.

Messages of a conversation, parameters, tokens, positions, and the fields of all answers.
"""
