"""From the messages of a request to facts by name: the same for the service and for a policy that decides locally."""
