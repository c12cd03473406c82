TASKS: list = []
