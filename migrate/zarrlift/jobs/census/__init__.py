"""Census: what many archives contain, what each would become, and what that would cost."""
