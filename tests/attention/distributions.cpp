#include "tests/attention/distributions.h"

#include <cmath>
#include <vector>

namespace octet::testing {
Matrix Matrix::normal(Random& random, std::int64_t r, std::int64_t c) {
  Matrix m(r, c);
  for (double& x : m.at) x = random.normal();
  return m;
}

void Matrix::scale_rows(Random& random, double size) {
  const Matrix n = normal(random, rows, 1);
  each([&](double& x, std::int64_t r, std::int64_t) {
    x *= std::exp(size * n.at[static_cast<std::size_t>(r)]);
  });
}

void Matrix::scale_columns(Random& random, double size) {
  const Matrix n = normal(random, 1, columns);
  each([&](double& x, std::int64_t, std::int64_t c) {
    x *= std::exp(size * n.at[static_cast<std::size_t>(c)]);
  });
}

void Matrix::shift_columns(Random& random, double size) {
  const Matrix n = normal(random, 1, columns);
  each([&](double& x, std::int64_t, std::int64_t c) { x += size * n.at[static_cast<std::size_t>(c)]; });
}

void Matrix::add_outliers(Random& random) {
  for (double& x : at) x += 10 * random.normal() * (random.unit() < .001);
}

void Matrix::scale(double factor) {
  for (double& x : at) x *= factor;
}

void Matrix::set_along(const Matrix& u, double size) {
  for (std::int64_t r = 0; r < rows; ++r) {
    double* row = &at[static_cast<std::size_t>(r * columns)];
    double part = 0;
    for (std::int64_t c = 0; c < columns; ++c) part += row[c] * u.at[static_cast<std::size_t>(c)];
    for (std::int64_t c = 0; c < columns; ++c) row[c] += (size - part) * u.at[static_cast<std::size_t>(c)];
  }
}

void Matrix::set_row(std::int64_t r, const Matrix& u, double size) {
  for (std::int64_t c = 0; c < columns; ++c)
    at[static_cast<std::size_t>(r * columns + c)] = size * u.at[static_cast<std::size_t>(c)];
}

Matrix direction(Random& random, std::int64_t dim) {
  Matrix u = Matrix::normal(random, 1, dim);
  double square = 0;
  for (double x : u.at) square += x * x;
  u.scale(1 / std::sqrt(square));
  return u;
}

Inputs distribution(std::string_view kind, std::uint64_t seed, std::int64_t queries, std::int64_t keys,
                    std::int64_t dim) {
  Random random(seed);
  Matrix q = Matrix::normal(random, queries, dim), k = Matrix::normal(random, keys, dim),
         v = Matrix::normal(random, keys, dim);
  if (kind == "sharp") {
    q.scale(4);
  } else if (kind == "outlier") {
    q.add_outliers(random), k.add_outliers(random), v.add_outliers(random);
  } else if (kind == "biasK") {
    k.shift_columns(random, 4);
  } else if (kind == "sink") {
    const Matrix u = direction(random, dim);
    q.set_along(u, 4), k.set_row(0, u, 2 * std::sqrt(static_cast<double>(dim)));
    for (std::int64_t c = 0; c < dim; ++c) v.at[static_cast<std::size_t>(c)] *= .05;
  } else if (kind == "mixed") {
    k.scale_rows(random, .5), k.shift_columns(random, 2), v.scale_rows(random, 1);
    for (std::int64_t c = 0; c < dim; ++c) v.at[static_cast<std::size_t>(c)] *= .05;
  } else if (kind == "vtoken") {
    v.scale_rows(random, 1.5);
  } else if (kind == "vchannel") {
    v.scale_columns(random, 1.5);
  } else if (kind == "uniform") {
    for (Matrix* m : {&q, &k, &v}) {
      for (double& x : m->at) x = random.uniform(-.5, .5);
    }
  } else if (kind == "tiny") {
    q.scale(.02), k.scale(.05), v.scale(1e-3);
  } else if (kind == "huge") {
    q.scale(30), k.scale(300), v.scale(1e4);
  } else if (kind == "needle") {
    const Matrix u = direction(random, dim);
    q.scale(.05), q.set_along(u, 5), k.scale(.05), k.set_along(u, 0);
    k.set_row(keys / 3, u, 2.5 * std::sqrt(static_cast<double>(dim)));
  } else if (kind != "normal") {
    return {};  // an unknown kind: nothing runs on no inputs
  }
  return {q.floats(), k.floats(), v.floats()};
}

}  // namespace octet::testing
