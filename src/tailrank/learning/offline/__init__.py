"""From records to a policy: pessimistic plans, off-policy evaluation, and what the records support."""
