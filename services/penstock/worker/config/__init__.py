"""The configuration of a connector: whose keys are whose, what they mean, what they reach."""
