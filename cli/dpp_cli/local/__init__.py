"""The local stack: Postgres, Valkey, and AWS by LocalStack with the project's own CDK app deployed to it."""
