package main

import "fmt"

func main() {
	fmt.Println("before")
	panic("went wrong")
}
