package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// A config is what an operator writes.
type config struct {
	// Policy is the path of a bundle.
	Policy  string                  `json:"policy"`
	Servers map[string]serverConfig `json:"servers"`
	// Agents are those that may connect over HTTP, by token.
	Agents map[string]agentConfig `json:"agents"`
}

type serverConfig struct {
	Command       string            `json:"command"`
	Args          []string          `json:"args"`
	URL           string            `json:"url"`
	Disabled      bool              `json:"disabled"`
	Quarantined   bool              `json:"quarantined"`
	DisabledTools []string          `json:"disabled_tools"`
	Labels        map[string]string `json:"labels"`
	// Approvals are what the user has said of tools, by name. A tool without one counts as approved.
	Approvals map[string]approvalConfig `json:"approvals"`
}

type approvalConfig struct {
	Disabled bool `json:"disabled"`
	// Status is `approved`, `pending` or `changed`; left out: `approved`.
	Status string `json:"status"`
}

type agentConfig struct {
	Name string `json:"name"`
	// Servers are those that the agent may see; `*` among them is every server.
	Servers []string `json:"servers"`
}

func readConfig(path string) (*config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var found config
	if err := decoder.Decode(&found); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for name, server := range found.Servers {
		if (server.Command == "") == (server.URL == "") {
			return nil, fmt.Errorf("%s: server %q: wanted a command or a URL", path, name)
		}
	}
	return &found, nil
}

// agentOf returns the agent with the token in some headers.
func (c *config) agentOf(header http.Header) (agentConfig, bool) {
	token, _ := strings.CutPrefix(header.Get("Authorization"), "Bearer ")
	agent, known := c.Agents[token]
	return agent, known && token != ""
}
