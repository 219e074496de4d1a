// Package registry lists the channels of this build: a new channel is one folder and one line here.
package registry

import (
	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/channel/alipay"
	"github.com/paylatch/paylatch/internal/channel/standard"
	"github.com/paylatch/paylatch/internal/channel/stripe"
	"github.com/paylatch/paylatch/internal/channel/wechatpay"
)

// All gives every channel.
func All() channel.Set {
	return channel.NewSet(
		standard.Channel{},
		stripe.Channel{},
		alipay.Channel{},
		wechatpay.Channel{},
	)
}
