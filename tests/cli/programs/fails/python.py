print("before")
raise ValueError("went wrong")
