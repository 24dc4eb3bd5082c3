// A greedy client: keeps many lists in flight at once, each on a connection of its own, until its standard input ends.
// It reads answers without looking at them, so that what is measured beside it is the server. Who is refused comes
// again after the time it was told. Prints "began" when all connections are open, and in the end how many answers of
// each status it had and how many bytes.
//
//	greedy ADDRESS PATH TOKEN CONNECTIONS
package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

type counts struct{ taken, refused, other, bytes atomic.Int64 }

func lists(address, path, token string, open *sync.WaitGroup, start <-chan struct{}, slots chan struct{}, seen *counts) {
	var connection *tls.Conn
	slots <- struct{}{}
	for {
		made, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
		if err == nil {
			connection = made
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	<-slots
	open.Done()
	<-start
	reader := bufio.NewReaderSize(connection, 64<<10)
	request := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path, token)
	for {
		if _, err := io.WriteString(connection, request); err != nil {
			return
		}
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			return
		}
		size, _ := io.Copy(io.Discard, response.Body)
		response.Body.Close()
		seen.bytes.Add(size)
		switch response.StatusCode {
		case 200:
			seen.taken.Add(1)
		case 429:
			seen.refused.Add(1)
			seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
			time.Sleep(time.Duration(seconds) * time.Second)
		default:
			seen.other.Add(1)
		}
	}
}

func main() {
	address, path, token := os.Args[1], os.Args[2], os.Args[3]
	connections, err := strconv.Atoi(os.Args[4])
	if err != nil {
		fmt.Fprintln(os.Stderr, "CONNECTIONS must be a number")
		os.Exit(2)
	}
	var open sync.WaitGroup
	var seen counts
	start, slots := make(chan struct{}), make(chan struct{}, 20)
	open.Add(connections)
	for range connections {
		go lists(address, path, token, &open, start, slots, &seen)
	}
	open.Wait()
	close(start)
	fmt.Println("began")
	io.Copy(io.Discard, os.Stdin)
	fmt.Println(seen.taken.Load(), seen.refused.Load(), seen.other.Load(), seen.bytes.Load())
}
