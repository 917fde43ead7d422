package main

import (
	"encoding/json"
	"fmt"
	"os"

	"prefire/internal/config"
)

func main() {
	c, err := config.Parse(os.Args[1:], os.LookupEnv, os.ReadFile)
	if err == config.ErrHelp {
		fmt.Print(config.Help("prefire"))
		return
	}
	if err != nil {
		fmt.Println("ERR", err.(*config.Error).Title, "|", err)
		return
	}
	b, _ := json.Marshal(c.Input)
	fmt.Println(string(b))
	c.Input = nil
	fmt.Printf("%+v\n", *c)
}
