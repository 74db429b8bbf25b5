package main

func main() {
	no_such_thing()
}
