"""Studies of plans: reports, profiles, pictures, and plans on paper. The engine knows nothing of them."""
