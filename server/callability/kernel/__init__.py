"""The one runtime of a policy: what a bundle decides, explained, in the words and the bytes of the contract.

A fact passes six forms: the contract's message, readings, points, verdict, message, bytes. `EncodedCalls` answers the
calls of the contract from bytes to bytes, as the service does; `LocalCalls` does from messages to messages.
"""
