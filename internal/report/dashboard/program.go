package dashboard

import (
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
)

// redraw is how often the state is asked for and drawn. A frame costs the run one snapshot.
const redraw = 250 * time.Millisecond

// Options are what a dashboard needs.
type Options struct {
	Out     io.Writer // the terminal
	Environ []string  // NAME=value
	// State is the run now; called four times a second.
	State func() State
	// Interrupt is called for each Ctrl-C: the terminal hands it on as a key and not as a signal.
	Interrupt func()
}

// Dashboard is a running one. It has the terminal until Close.
type Dashboard struct {
	program *tea.Program
	done    chan struct{}
}

// Start takes the terminal.
func Start(o Options) *Dashboard {
	d := &Dashboard{done: make(chan struct{})}
	d.program = tea.NewProgram(&model{o: o, width: 80, height: 24}, tea.WithOutput(o.Out), tea.WithEnvironment(o.Environ), tea.WithoutSignalHandler())
	go func() {
		defer close(d.done)
		_, _ = d.program.Run() // without it the run goes on as with --ui none
	}()
	return d
}

// Say shows a message until others take its place.
func (d *Dashboard) Say(text string) { d.send(say(text)) }

// send hands a message over, unless the program has ended.
func (d *Dashboard) send(m tea.Msg) {
	select {
	case <-d.done:
	default:
		d.program.Send(m)
	}
}

// Close gives the terminal back as it was.
func (d *Dashboard) Close() {
	d.program.Quit()
	<-d.done
}

// patience bounds how long Abort waits for the terminal.
const patience = time.Second

// Abort gives the terminal back at once, for a program that is about to exit.
func (d *Dashboard) Abort() {
	d.program.Kill()
	select {
	case <-d.done:
	case <-time.After(patience):
	}
}

type say string

type tick struct{}

// model is the dashboard as bubbletea runs it.
type model struct {
	o             Options
	state         State
	history       history
	messages      []string
	width, height int
}

func (m *model) Init() tea.Cmd { return func() tea.Msg { return tick{} } }

func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tick:
		m.state = m.o.State()
		m.history.observe(&m.state)
		return m, tea.Tick(redraw, func(time.Time) tea.Msg { return tick{} })
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		if msg.String() == "ctrl+c" {
			m.o.Interrupt()
		}
	case say:
		m.messages = append(m.messages, string(msg))
		if n := len(m.messages); n > mostMessages {
			m.messages = m.messages[n-mostMessages:]
		}
	}
	return m, nil
}

func (m *model) View() tea.View {
	v := tea.NewView(text(frame(&m.state, &m.history, m.messages, m.width, m.height)))
	v.AltScreen = true
	return v
}
