package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

func main() {
	fmt.Println("hello")
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	fmt.Println("stdin:", strings.TrimSpace(line))
	for _, arg := range os.Args[1:] {
		fmt.Println("arg:", arg)
	}
	data, err := os.ReadFile("data/input.txt")
	if err != nil {
		panic(err)
	}
	fmt.Println("file:", strings.TrimSpace(string(data)))
	if err := os.WriteFile("result.txt", []byte("written\n"), 0o644); err != nil {
		panic(err)
	}
	fmt.Fprintln(os.Stderr, "to stderr")
	os.Exit(3)
}
