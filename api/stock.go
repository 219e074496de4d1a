package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5"

	"github.com/paylatch/paylatch/internal/audit"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/stock"
)

type stockBody struct {
	SKU       string    `json:"sku"`
	OnHand    int64     `json:"on_hand"`
	Reserved  int64     `json:"reserved"`
	Version   int64     `json:"version"`
	UpdatedAt time.Time `json:"updated_at"`
}

func newStockBody(l stock.Level) stockBody {
	return stockBody{l.SKU, l.OnHand, l.Reserved, l.Version, l.UpdatedAt}
}

// putStock sets what is on hand; with a version only if the stock was not changed since.
func (s *server) putStock(c *gin.Context) {
	var body struct {
		OnHand  *int64 `json:"on_hand"`
		Version int64  `json:"version"`
	}
	if !stock.ValidSKU(c.Param("sku")) {
		s.fail(c, badRequest("sku_invalid", "a sku is 1 to 64 of letters, digits and _-.|*"))
		return
	}
	if err := readJSON(c, &body, false); err != nil {
		s.fail(c, err)
		return
	}
	if body.OnHand == nil || *body.OnHand < 0 {
		s.fail(c, badRequest("on_hand_invalid", "on_hand must be a whole number of 0 or above"))
		return
	}
	if body.Version < 0 {
		s.fail(c, badRequest("version_invalid", "version is the one that the stock had, or 0 for any"))
		return
	}
	s.withStock(c, func(tx pgx.Tx) (stock.Level, error) {
		level, err := stock.Put(c.Request.Context(), tx, who(c).TenantID, c.Param("sku"), *body.OnHand, body.Version)
		if err == nil {
			err = audit.Record(c.Request.Context(), tx, who(c).TenantID, audit.StockPut, level.SKU, "on_hand "+strconv.FormatInt(level.OnHand, 10))
		}
		return level, err
	})
}

func (s *server) getStock(c *gin.Context) {
	if !stock.ValidSKU(c.Param("sku")) {
		s.fail(c, stock.ErrUnknownSKU)
		return
	}
	s.withStock(c, func(tx pgx.Tx) (stock.Level, error) {
		return stock.Get(c.Request.Context(), tx, who(c).TenantID, c.Param("sku"))
	})
}

func (s *server) withStock(c *gin.Context, do func(pgx.Tx) (stock.Level, error)) {
	var level stock.Level
	err := database.InTenantTx(c.Request.Context(), s.API, who(c).TenantID, func(tx pgx.Tx) (err error) {
		level, err = do(tx)
		return err
	})
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, newStockBody(level))
}
