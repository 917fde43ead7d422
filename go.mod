module prefire

go 1.26
