"""The facts of Hopper (sm_90a), each in one place."""
