module greedy

go 1.22
